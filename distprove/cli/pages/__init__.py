"""Pages that explain a run or a sweep: one HTML file each, with nothing to load from elsewhere and no script."""
