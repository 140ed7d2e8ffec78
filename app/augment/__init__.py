"""Changed copies of texts by the transformations of attacks."""
