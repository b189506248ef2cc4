"""Longer texts of the pages: definitions on hover, empty states and their cure, words for screen readers."""

from __future__ import annotations

ABOUT: dict[str, tuple[str, str]] = {
    # definitions, shown on hover
    "about_marks": (
        "■ firing · ▲ watching: over its threshold, not for long enough · ● well · – no fresh sample",
        "■ 告警中 · ▲ 观察中：已超阈值但持续时间不足 · ● 正常 · – 数据过期",
    ),
    "about_vram": (
        (
            "Memory in use ÷ (total − reserved), as DCGM defines it. Percent. Band: lowest and highest "
            "of each step."
        ),
        "已用 ÷（总量 − 保留），与 DCGM 定义一致。单位 %。色带为每步的最低与最高值。",
    ),
    "about_memory": (
        "Used and reserved as the driver reports them; what is left up to the total is free.",
        "已用与保留由驱动上报；其余为空闲。",
    ),
    "about_utilization": (
        (
            "Utilisation: share of time in which a kernel ran, 100 % on a hung one too. SM active: share "
            "of the multiprocessors at work. MIG instances report no utilisation: there the time their "
            "engine was active. Percent."
        ),
        (
            "利用率：有内核运行的时间占比，卡死时也为 100 %。SM 活跃：工作中的 SM 占比。MIG "
            "实例无利用率，改为引擎活跃时间占比。单位 %。"
        ),
    ),
    "tile_vram": (
        "VRAM in use, %. Click a square to open that GPU.",
        "显存使用率，%。点击方格查看该 GPU。",
    ),
    "tile_utilization": (
        "Utilisation, %. Click a square to open that GPU.",
        "利用率，%。点击方格查看该 GPU。",
    ),
    "tile_temperature": (
        "GPU core, °C. Click a square to open that GPU.",
        "GPU 核心温度，°C。点击方格查看该 GPU。",
    ),
    "tile_power": ("Power draw, W. Click a square to open that GPU.", "功耗，W。点击方格查看该 GPU。"),
    "about_throttle": (
        (
            "NVML clock-event reasons, decoded bit by bit. A software power cap is normal under full "
            "load. Idle, clock setting and display clock slow nothing. Colour strength: share of the "
            "samples."
        ),
        (
            "NVML "
            "时钟事件原因，逐位解码。满载时软件功耗限制属正常；空闲、时钟设置、显示时钟不算降频。颜色"
            "深浅为样本占比。"
        ),
    ),
    "about_pod": (
        "From the exporter; several pods on one GPU share it.",
        "由 exporter 上报；多个 pod 表示共享此 GPU。",
    ),
    "about_gpu_project": (
        "Of the target, or of the engines that use this GPU.",
        "来自采集目标，或使用此 GPU 的引擎。",
    ),
    "about_xid": (
        "The last XID error code. It stays until the exporter or the driver restarts: it may be old.",
        "最近一次 XID 错误码。在 exporter 或驱动重启前一直保留，可能是旧的。",
    ),
    "about_p95": (
        (
            "95 % of the requests of the last 5 minutes got their first token within this time, measured "
            "by the engine. “–”: under 20 requests, or the engine does not measure it. “avg”: a mean, where "
            "the engine gives no percentile. Of probes: the last hour, measured from outside."
        ),
        (
            "近 5 分钟 95 % 的请求在此时间内得到首 token（引擎侧测量）。“–”：不足 20 个请求，或引擎不测量。"
            "“avg”：引擎只提供平均值。探针为近一小时，从外部测量。"
        ),
    ),
    "about_trend": (
        "TTFT p95 (the mean, where there is no percentile) over the last hour, each engine on its own scale.",
        "近一小时首 token 延迟 p95（无分位数时为平均值），各引擎自有刻度。",
    ),
    "about_kv": (
        "Share of the KV cache's blocks in use. Near 100 % requests are preempted.",
        "KV 缓存块使用率。接近 100 % 时会发生抢占。",
    ),
    "about_tokens": (
        (
            "Generated (and prompt) tokens per second: the counter's increase over the time it covers, "
            "over restarts too. In tables: the last 5 minutes."
        ),
        "每秒生成（及输入）token：计数器增量 ÷ 所覆盖时间，已处理重启。表格中为近 5 分钟。",
    ),
    "about_verdict": (
        "What an open incident says about it. Empty: there is none.",
        "来自未恢复的告警；为空表示没有。",
    ),
    "about_ttft": (
        (
            "Time to first token: from the request's arrival in the engine to its first token: queueing "
            "included, the network and a gateway before it not."
        ),
        "从请求到达引擎到首 token：含排队，不含网络与前置网关。",
    ),
    "about_itl": (
        "Inter-token latency: time between two tokens of one answer.",
        "同一回答相邻两个 token 的间隔。",
    ),
    "about_tpot": (
        "Time per output token: mean time per token after the first, one value a request.",
        "首 token 之后每 token 平均用时，每请求一个值。",
    ),
    "about_e2e": (
        (
            "End-to-end latency: from a request's arrival in the engine to its last token. Counted when "
            "it finishes."
        ),
        "从请求到达引擎到最后一个 token，完成时计入。",
    ),
    "about_quantiles": (
        (
            "Percentiles come from buckets: the band is the bucket that holds the true value. ▲: past "
            "the last edge, so only a lower bound is known. A step with under 20 requests has no p95, "
            "under 100 no p99."
        ),
        (
            "分位数由分桶得出：色带为真实值所在的桶。▲：超过最后一个桶边界，只知下限。每步不足 20 "
            "个请求无 p95，不足 100 个无 p99。"
        ),
    ),
    "mean_only": (
        "{engine} gives a sum and a count, no buckets: a mean, and no percentile.",
        "{engine} 只提供总和与计数，没有分桶：只有平均值，没有分位数。",
    ),
    "about_queue": (
        (
            "Requests waiting for a place, and requests in the running batch; the band reaches to each "
            "step's highest."
        ),
        "等待中的请求与运行批次中的请求；色带上沿为每步最高值。",
    ),
    "about_preemptions": (
        (
            "Requests thrown out of the batch for want of KV blocks, to be computed again; per step of "
            "the chart."
        ),
        "因 KV 块不足被移出批次、需重算的请求；按图表每步计数。",
    ),
    "about_reservation": (
        (
            "The share of the GPU's memory that the engine takes at its start, as it says itself or as "
            "configured. Memory in use below that is no warning."
        ),
        "引擎启动时占用的显存比例（引擎上报或配置）。低于此值的占用不构成告警。",
    ),
    "version_not_measured": ("The engine's metrics do not say its version.", "引擎指标未包含版本。"),
    "about_up_for": ("Since the engine's process started.", "自引擎进程启动。"),
    "about_engine_gpus": (
        (
            "Configured: the target's `gpus`. By its pod: the GPU's exporter names the pod that the engine "
            "runs in. By its process: the driver lists the process that listens on the engine's port. They "
            "tie the engine to GPU incidents."
        ),
        (
            "配置指定：目标的 `gpus`。按 pod：GPU exporter 上报了引擎所在的 pod。按进程：驱动列出了监听"
            "引擎端口的进程。用于关联 GPU 告警。"
        ),
    ),
    "about_engine_gpus_unknown": (
        "Not known: no `gpus` in its target, and no GPU names its pod or its process.",
        "未知：目标未配置 `gpus`，也没有 GPU 上报其 pod 或进程。",
    ),
    "about_processes": (
        "As the driver lists them: process ids are the host's. In a container the list can be empty.",
        "由驱动列出：进程号为主机侧编号。容器内可能为空。",
    ),
    "about_host_cpu": (
        "Share of all CPUs' time that was neither idle nor waiting for disks, over the last 5 minutes.",
        "近 5 分钟所有 CPU 非空闲、非等待 I/O 的时间占比。",
    ),
    "about_host_memory": (
        "Memory that programs can still get, as the kernel estimates it (MemAvailable), of all.",
        "内核估计的可用内存（MemAvailable）与总量。",
    ),
    "about_probe": (
        "A small request that infermeter itself sends, and times from outside.",
        "由 infermeter 定期发送的小请求，从外部计时。",
    ),
    "about_probe_ttft": (
        "From sending the request to the first token: the network and everything in between included.",
        "从发送请求到首 token：含网络及中间各层。",
    ),
    "about_probe_e2e": (
        "From sending the request to the last token: the network and everything in between included.",
        "从发送请求到最后一个 token：含网络及中间各层。",
    ),
    "about_probes_ok": (
        "Of the requests that infermeter itself sent: those whose answer came whole and in time.",
        "infermeter 发送的请求中按时完整返回的数量。",
    ),
    "about_probes_failed": (
        "Requests that infermeter itself sent and that were refused, broke off or took too long.",
        "infermeter 发送的请求中被拒绝、中断或超时的数量。",
    ),
    "about_probe_cost": (
        "Tokens × the configured prices; an estimate, not the bill. ≥: some requests' tokens are unknown.",
        "token 数 × 配置的单价；为估算，非账单。≥：部分请求没有 token 计数。",
    ),
    "no_probe_in_window": ("No probe was sent in this time.", "本时段没有探测。"),
    "probe_did_not_time": (
        "no probe of {target} got this far in this time",
        "本时段 {target} 没有可计时的探测",
    ),
    "about_kind": ("What the answer turned out to be.", "根据返回内容识别。"),
    "about_origin": ("Where the target list has it from.", "目标列表从何处得到此目标。"),
    "about_read_by": (
        "The metric's name as this target spells it. “–”: none of the names looked for is there.",
        "此目标实际使用的指标名。“–”：未找到任何一个。",
    ),
    "about_looked_for": (
        "All names this kind gives the figure, over its versions; the first that is there is read.",
        "此类目标各版本对该数据项使用的名称，取第一个存在的。",
    ),
    "alt_source_names": ("By which name each figure is read", "各数据项的读取名称"),
    "about_took": ("From the request to the last byte.", "从请求到最后一个字节。"),
    "about_lines": ("Lines that carry a sample.", "含样本的行数。"),
    "about_rejected": (
        "Lines that could not be read. Each costs that line only.",
        "无法解析的行，仅影响该行。",
    ),
    "about_unowned": (
        "Lines of a wanted metric that name no GPU or engine.",
        "指标需要但未标明 GPU 或引擎的行。",
    ),
    "about_missing": (
        "Metrics this kind can yield and this target does not; they are named below the table.",
        "此类目标可提供但该目标未提供的指标，见表下方。",
    ),
    # empty states, and their cure
    "no_targets": (
        "No target is configured, and none was found on this machine.",
        "尚未配置目标，本机也未发现任何目标。",
    ),
    "no_targets_cure": ("Add this to the configuration file and restart:", "在配置文件中加入并重启："),
    "no_engines": ("No engine has reported in the last 5 minutes", "近 5 分钟没有引擎上报"),
    "no_engines_before": (
        "No engine reported in the 5 minutes before {time}",
        "{time} 前 5 分钟没有引擎上报",
    ),
    "no_engines_cure": (
        "Sources says what each target answers. An engine is added like this:",
        "各目标状态见“采集目标”。添加引擎：",
    ),
    "no_gpus": ("No GPU has reported in the last 5 minutes", "近 5 分钟没有 GPU 上报"),
    "no_gpus_before": ("No GPU reported in the 5 minutes before {time}", "{time} 前 5 分钟没有 GPU 上报"),
    "no_gpus_cure": (
        "Sources says what each target answers. A node's GPUs are added like this:",
        "各目标状态见“采集目标”。添加节点 GPU：",
    ),
    "no_histograms": (
        "{engine} measures no TTFT; a probe would. Its percentiles are not known.",
        "{engine} 不测量首 token 延迟；可用探针测量。分位数未知。",
    ),
    "no_histograms_cure": (
        (
            "Queue, running requests and tokens are measured, below. The latency of a gateway in front "
            "of it can be scraped as a target of its own."
        ),
        "下方为已测量的排队、运行请求与 token。也可将前置网关作为单独目标采集其延迟。",
    ),
    "no_requests_in_window": (
        "No request finished its first token in this time, so there is no latency to show.",
        "本时段没有请求产出首 token，无延迟可显示。",
    ),
    "ttft_by_probe": (
        "A target of kind `probe` measures it from outside.",
        "可用 `probe` 类目标从外部测量。",
    ),
    "metric_not_measured": ("{target} does not export this histogram.", "{target} 未导出此直方图。"),
    "no_samples_in_window": ("No sample in this time.", "本时段没有样本。"),
    "no_samples_in_window_cure": (
        "The last one is from {time}. Choose a longer range or an earlier time.",
        "最近一次为 {time}。请选择更长或更早的时间范围。",
    ),
    "gpu_not_seen": (
        "No sample of GPU {gpu} in the week before this time",
        "此前一周没有 GPU {gpu} 的样本",
    ),
    "gpu_not_seen_cure": (
        "The link may be from another installation, or the GPU is gone for longer than that.",
        "链接可能来自其他部署，或该 GPU 已长期离线。",
    ),
    "engine_not_seen": ("No fresh sample of engine {engine}", "引擎 {engine} 没有新样本"),
    "engine_not_known": (
        "No target has this name. The link may be from another installation.",
        "没有此名称的目标，链接可能来自其他部署。",
    ),
    "vram_not_known_cure": (
        (
            "Its driver does not report memory (parts with unified memory do not). The other measures "
            "are below."
        ),
        "驱动未上报显存（统一内存设备即如此）。其他指标见下。",
    ),
    "no_engine_on_gpu_cure": (
        "Name the engine's GPUs in its target: `gpus: [node-1/0]` or their UUIDs.",
        "在引擎目标中写明 GPU：`gpus: [node-1/0]` 或 UUID。",
    ),
    "no_utilization": ("utilisation is not reported", "未上报利用率"),
    "no_power": (
        "power is not reported (vGPUs and MIG instances have none)",
        "未上报功耗（vGPU 与 MIG 实例无此项）",
    ),
    "no_temperature": (
        "temperature is not reported (vGPUs and MIG instances have none)",
        "未上报温度（vGPU 与 MIG 实例无此项）",
    ),
    "no_clocks": ("clocks are not reported", "未上报时钟"),
    "no_throttle": (
        "– no reason was set in this time, or the exporter does not report them (DCGM field 112)",
        "– 本时段无降频原因，或 exporter 未上报（DCGM 字段 112）",
    ),
    "no_queue": ("the queue is not reported", "未上报排队"),
    "no_kv": ("KV-cache use is not reported by this engine", "此引擎未上报 KV 缓存使用率"),
    "no_tokens": ("token counters are not reported", "未上报 token 计数"),
    "no_preemptions": ("preemptions are not counted by this engine", "此引擎不统计抢占"),
    # for screen readers
    "alt_trend": ("Trend of the measure behind {title}", "{title} 的趋势"),
    "alt_tiles": (
        "One square per GPU, a row per node, coloured by {measure}",
        "每块 GPU 一格，每节点一行，按{measure}着色",
    ),
    "alt_engines": ("Engines, worst first", "引擎，最差在前"),
    "alt_gpus": ("GPUs, worst first", "GPU，最差在前"),
    "alt_sources": ("Targets, worst first", "目标，最差在前"),
    "alt_vram_ratio": (
        "VRAM in use over time, percent, with the levels of the rule",
        "显存使用率随时间变化，含规则阈值",
    ),
    "alt_memory": (
        "Memory used and reserved over time, against the total",
        "显存已用与保留随时间变化，对比总量",
    ),
    "alt_throttle": ("Throttle reasons over time", "降频原因随时间变化"),
    "alt_quantiles": (
        "{metric} percentiles over time",
        "{metric} 分位数随时间变化",
    ),
}
