"""A language model that is asked where rules do not suffice: what it is sent, and what is believed of its answer."""
