-- purpose: only the newest base of a histogram is ever read again
DELETE FROM histogram_base AS old
WHERE EXISTS (
  SELECT 1 FROM histogram_base AS newer
  WHERE newer.target = old.target AND newer.replica = old.replica AND newer.model IS NOT DISTINCT FROM old.model
    AND newer.metric = old.metric AND newer.ts > old.ts
)
