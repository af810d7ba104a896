"""What is seen → people, jobs: messages to those who hold GPUs empty and, if nothing helps, cancellations."""
