-- purpose: forget how far targets of a source were read; before it is written anew, and when they are gone
-- parameters: source, targets (names)
DELETE FROM pull_progress WHERE source = $source AND list_contains($targets::VARCHAR[], target)
