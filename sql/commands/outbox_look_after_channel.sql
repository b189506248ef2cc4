-- purpose: a channel's row; a new run of infermeter tries a failed channel again (its address may be mended)
-- parameters: channel, kind, now, run
INSERT INTO channel (channel, kind, state, failures, next_send_at, run)
VALUES ($channel, $kind, 'ok', 0, $now, $run)
ON CONFLICT (channel) DO UPDATE SET
  kind = excluded.kind, run = excluded.run,
  state = CASE WHEN channel.state = 'failed' THEN 'retrying' ELSE channel.state END
WHERE channel.run <> excluded.run
