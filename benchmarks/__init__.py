"""The benchmark rig: SureStream beside hand-written loops and its peers, in one run."""
