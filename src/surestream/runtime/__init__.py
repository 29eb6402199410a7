"""What runs: the rules of redelivery and everything that carries them out."""
