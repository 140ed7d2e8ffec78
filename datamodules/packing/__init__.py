"""Running text packed into blocks of one length."""
