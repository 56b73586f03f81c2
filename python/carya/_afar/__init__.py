"""Python functions of trainers on other machines: the program that runs them here."""
