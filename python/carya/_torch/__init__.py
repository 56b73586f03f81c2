"""torch's DataLoader over worker processes."""
