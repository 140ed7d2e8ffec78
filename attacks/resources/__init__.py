"""Resources of text attacks: word vectors, WordNet, taggers and models."""
