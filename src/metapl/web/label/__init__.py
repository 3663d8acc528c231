"""`metapl label`: a page on which a person says what the pictures show that `metapl fit` wants to know most."""
