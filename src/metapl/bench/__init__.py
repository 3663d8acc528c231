"""`metapl bench`: how fast a method trains a network, and how fast the network answers, on this machine."""
