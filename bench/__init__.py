"""The reference's steps against one `gpulake refresh`: the same files in, the same flags and scores out."""
