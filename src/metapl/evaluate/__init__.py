"""Ask trained networks about pictures, and measure how good their predictions are."""
