-- purpose: note up to where a span of the past was read
-- parameters: source, begin_ts, end_ts (of the span), done_ts
UPDATE backfill_progress SET done_ts = $done_ts
WHERE source = $source AND begin_ts = $begin_ts AND end_ts = $end_ts
