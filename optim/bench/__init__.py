"""Answer questions by methods: models, stored replies and limits. Nothing here needs Inspect."""
