"""`metapl fit`: takes a folder with few labelled and many unlabelled pictures, gives a model and an honest verdict."""
