"""Services of the cases that run in processes of their own."""
