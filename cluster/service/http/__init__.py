"""The standing service over HTTP: its API, the document of that, and the page."""
