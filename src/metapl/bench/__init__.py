"""`metapl bench`: how fast a method trains a network, and how fast the network predicts, on this machine."""
