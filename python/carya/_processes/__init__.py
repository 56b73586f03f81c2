"""Between processes of one stream: messages, memory that they share, what the system does for them."""
