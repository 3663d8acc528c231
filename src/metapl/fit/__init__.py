"""`metapl fit`: a folder with few labelled and many unlabelled pictures in; a model and an honest verdict out."""
