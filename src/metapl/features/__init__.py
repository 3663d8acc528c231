"""Features of pictures: computed once by a frozen encoder, several views of each picture, kept on disk."""
