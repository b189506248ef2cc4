-- purpose: what projects used before the retention goes
-- parameters: before (UTC)
DELETE FROM project_usage WHERE ts < $before
