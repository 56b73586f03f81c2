"""What a dataset is: figures, fields, some of its records, the line of Python that opens it."""
