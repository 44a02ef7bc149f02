"""What is written down of a turn once it has ended, in the background and without loss."""
