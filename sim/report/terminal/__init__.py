"""Pages for a terminal: plain rich renderables, readable at 100 columns with and without colour."""
