-- purpose: what an earlier run was sending when it ended, or this one longer than a send can take, waits again;
--          not what this run is sending at the moment
-- parameters: run, claimed_before, busy (list of channels)
-- grain of the answer: message
UPDATE outbox SET state = 'waiting', claimed_by = NULL
WHERE state = 'sending' AND NOT list_contains($busy::VARCHAR[], channel)
  AND (claimed_by IS DISTINCT FROM $run OR claimed_at < $claimed_before)
RETURNING message_id
