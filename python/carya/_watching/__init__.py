"""Watching streams from outside: traces by command, and a page of what a daemon or loader says."""
