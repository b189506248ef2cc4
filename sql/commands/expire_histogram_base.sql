-- purpose: only the newest base of a histogram is read again, and none whose rows are past retention
-- parameters: before (UTC)
DELETE FROM histogram_base AS old
WHERE old.ts < $before OR EXISTS (
  SELECT 1 FROM histogram_base AS newer
  WHERE newer.target = old.target AND newer.replica = old.replica AND newer.model IS NOT DISTINCT FROM old.model
    AND newer.metric = old.metric AND newer.ts > old.ts
)
