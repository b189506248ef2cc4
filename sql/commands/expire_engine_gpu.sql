-- purpose: placements that nothing has shown since go
-- parameters: before (UTC)
DELETE FROM engine_gpu WHERE last_seen < $before
