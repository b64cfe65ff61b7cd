"""An HTTP server: questions about documents, key blocks and reranking as JSON, and a web page."""
