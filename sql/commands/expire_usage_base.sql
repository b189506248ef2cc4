-- purpose: only the newest base of a usage counter is read again, and none past the retention of usage
-- parameters: before (UTC)
DELETE FROM usage_base AS old
WHERE old.ts < $before OR EXISTS (
  SELECT 1 FROM usage_base AS newer
  WHERE newer.target = old.target AND newer.replica = old.replica AND newer.source = old.source
    AND newer.project IS NOT DISTINCT FROM old.project AND newer.environment IS NOT DISTINCT FROM old.environment
    AND newer.model IS NOT DISTINCT FROM old.model AND newer.key_alias IS NOT DISTINCT FROM old.key_alias
    AND newer.ts > old.ts
)
