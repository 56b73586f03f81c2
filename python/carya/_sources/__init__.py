"""Where the records of other libraries' datasets lie."""
