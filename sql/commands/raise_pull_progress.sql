-- purpose: what is older is left to a span of the past: live reading of all targets of a source begins here
-- parameters: source, floor_ts
UPDATE pull_progress SET last_ts = $floor_ts WHERE source = $source AND last_ts < $floor_ts
