"""What is seen of a training: what looks, one file a seam, and what is made of it. It changes nothing."""
