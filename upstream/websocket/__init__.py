"""The WebSocket mode: frames, lanes, and what a connection keeps."""
