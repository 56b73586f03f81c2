"""What a user says of functions: where operations may pass them, whether it is so, and what a chain of both costs."""
