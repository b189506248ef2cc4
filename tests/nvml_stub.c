/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that tests read GPUs where there is none.
 *
 * The world is the text file $NVML_WORLD, `key=value` a line, read anew at each call: a test changes it between
 * two polls. A GPU is named by its number ("0"), its MIG device K "0.mig.K"; what is said of it is "0.temperature".
 * What is not said is not supported. `init`, `count` and `driver` are the machine's.
 *   FUNCTION.crash=1, FUNCTION.hang=1      any call of that function; it hangs until that is taken away
 *   NAME.hang.FUNCTION=1                   one GPU or MIG device hangs in that function
 *   NAME.error.FUNCTION=15                 or answers it with that nvmlReturn_t
 * Each call is a line "NAME FUNCTION" in $NVML_CALLS, where that is set.
 *
 *   gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml_stub.c
 * -DOLD_DRIVER leaves out what drivers before 510 lack.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7, BAD_VERSION = 25 };
enum { GPUS = 16, MIG_DEVICES = 7, NO_INSTANCE = -1 };
typedef unsigned long long Number;
typedef struct { char name[16]; } *Device;

static struct { char name[16]; } gpus[GPUS], mig_devices[GPUS][MIG_DEVICES];
static int initialised;

static int text_of(const char *key, char *text, size_t size) {
    const char *path = getenv("NVML_WORLD");
    FILE *world = path ? fopen(path, "r") : NULL;
    char line[2048];
    int found = 0;
    size_t length = strlen(key);
    while (world && fgets(line, sizeof line, world))
        if (!strncmp(line, key, length) && line[length] == '=') {
            line[strcspn(line, "\r\n")] = 0;
            snprintf(text, size, "%s", line + length + 1);
            found = 1; /* the last line of a key counts, so that a test can append */
        }
    if (world) fclose(world);
    return found;
}

static int number_of(const char *key, Number *number) {
    char text[64];
    if (!text_of(key, text, sizeof text)) return 0;
    *number = strtoull(text, NULL, 0);
    return 1;
}

/* Everything a call does before it answers: it is written down, can crash or hang, can be told to fail. */
static int begin(const char *name, const char *function) {
    char key[192];
    Number code = 0;
    const char *path = getenv("NVML_CALLS");
    FILE *calls = path ? fopen(path, "a") : NULL;
    if (calls) {
        fprintf(calls, "%s %s\n", name, function);
        fclose(calls);
    }
    snprintf(key, sizeof key, "%s.crash", function);
    if (number_of(key, &code) && code) raise(SIGSEGV);
    snprintf(key, sizeof key, "%s.hang", function);
    while (number_of(key, &code) && code) usleep(20000);
    snprintf(key, sizeof key, "%s.hang.%s", name, function);
    while (number_of(key, &code) && code) usleep(20000);
    snprintf(key, sizeof key, "%s.error.%s", name, function);
    code = OK;
    number_of(key, &code);
    return (int)code;
}

static int number(Device device, const char *function, const char *what, Number *value) {
    char key[192];
    int code;
    if (!initialised) return UNINITIALIZED;
    if (!device) return INVALID_ARGUMENT;
    if ((code = begin(device->name, function))) return code;
    snprintf(key, sizeof key, "%s.%s", device->name, what);
    return number_of(key, value) ? OK : NOT_SUPPORTED;
}

static int text(Device device, const char *function, const char *what, char *value, unsigned size) {
    char key[192];
    int code;
    if (!initialised) return UNINITIALIZED;
    if ((code = begin(device->name, function))) return code;
    snprintf(key, sizeof key, "%s.%s", device->name, what);
    return text_of(key, value, size) ? OK : NOT_SUPPORTED;
}

static Number plain_number(Device device, const char *what) {
    char key[192];
    Number value = 0;
    snprintf(key, sizeof key, "%s.%s", device->name, what);
    number_of(key, &value);
    return value;
}

int nvmlInitWithFlags(unsigned flags) {
    Number code = OK;
    (void)flags;
    if (begin("-", __func__) || (number_of("init", &code) && code)) return (int)code;
    for (int gpu = 0; gpu < GPUS; gpu++) {
        snprintf(gpus[gpu].name, sizeof gpus[gpu].name, "%d", gpu);
        for (int k = 0; k < MIG_DEVICES; k++)
            snprintf(mig_devices[gpu][k].name, sizeof mig_devices[gpu][k].name, "%d.mig.%d", gpu, k);
    }
    initialised = 1;
    return OK;
}
int nvmlShutdown(void) { initialised = 0; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }
int nvmlSystemGetDriverVersion(char *value, unsigned size) { return text_of("driver", value, size) ? OK : NOT_SUPPORTED; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    Number value = 0;
    int code = begin("-", __func__);
    if (!initialised) return UNINITIALIZED;
    number_of("count", &value);
    *count = (unsigned)value;
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    Number count = 0;
    int code;
    number_of("count", &count);
    if (index >= count || index >= GPUS) return INVALID_ARGUMENT;
    if ((code = begin(gpus[index].name, __func__))) return code;
    *device = (Device)&gpus[index];
    return OK;
}
int nvmlDeviceGetUUID(Device d, char *value, unsigned size) { return text(d, __func__, "uuid", value, size); }
int nvmlDeviceGetName(Device d, char *value, unsigned size) { return text(d, __func__, "name", value, size); }

typedef struct { Number total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Device d, Memory *memory) {
    int code = number(d, __func__, "memory.total", &memory->total);
    if (code) return code;
    memory->free = plain_number(d, "memory.free");
    memory->used = plain_number(d, "memory.used") + plain_number(d, "memory.reserved");
    return OK;
}
typedef struct { unsigned sensor_or_version; int sensor, celsius; } Temperature;
int nvmlDeviceGetTemperature(Device d, unsigned sensor, unsigned *celsius) {
    Number value;
    int code = number(d, __func__, "temperature", &value);
    (void)sensor;
    if (!code) *celsius = (unsigned)value;
    return code;
}
typedef struct { unsigned pid; Number bytes; unsigned gpu_instance, compute_instance; } Process;
/* "pid:bytes:instance,pid:na:": bytes may be not available, the instance left out */
static int processes(Device d, const char *function, const char *what, unsigned *count, Process *list) {
    char value[1024], key[192], *rest, *one;
    int code = begin(d->name, function);
    unsigned found = 0, room = *count;
    *count = 0;
    if (code) return code;
    snprintf(key, sizeof key, "%s.%s", d->name, what);
    if (!text_of(key, value, sizeof value)) return OK;
    for (one = strtok_r(value, ",", &rest); one; one = strtok_r(NULL, ",", &rest), found++) {
        char *bytes = strchr(one, ':'), *instance = bytes ? strchr(bytes + 1, ':') : NULL;
        if (!list || found >= room) continue;
        list[found].pid = (unsigned)strtoul(one, NULL, 10);
        list[found].bytes = !bytes || bytes[1] == 'n' ? ~0ULL : strtoull(bytes + 1, NULL, 10);
        list[found].gpu_instance = instance && instance[1] ? (unsigned)strtoul(instance + 1, NULL, 10) : (unsigned)NO_INSTANCE;
        list[found].compute_instance = (unsigned)NO_INSTANCE;
    }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

#ifdef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v2(Device d, unsigned *n, Process *p) { return processes(d, __func__, "compute", n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, unsigned *n, Process *p) { return processes(d, __func__, "graphics", n, p); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device d, Number *bits) { return number(d, __func__, "reasons", bits); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *n, Process *p) { return processes(d, __func__, "compute", n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, unsigned *n, Process *p) { return processes(d, __func__, "graphics", n, p); }
int nvmlDeviceGetCurrentClocksEventReasons(Device d, Number *bits) { return number(d, __func__, "reasons", bits); }
typedef struct { unsigned version; Number total, reserved, free, used; } Memory2;
int nvmlDeviceGetMemoryInfo_v2(Device d, Memory2 *memory) {
    int code = number(d, __func__, "memory.total", &memory->total);
    if (code) return code;
    if (memory->version != (sizeof *memory | 2u << 24)) return BAD_VERSION;
    memory->reserved = plain_number(d, "memory.reserved");
    memory->free = plain_number(d, "memory.free");
    memory->used = plain_number(d, "memory.used");
    return OK;
}
int nvmlDeviceGetTemperatureV(Device d, Temperature *temperature) {
    Number value;
    int code = number(d, __func__, "temperature", &value);
    if (!code) temperature->celsius = (int)value;
    return code;
}
#endif

int nvmlDeviceGetUtilizationRates(Device d, unsigned rates[2]) {
    Number gpu;
    int code = number(d, __func__, "utilization", &gpu);
    if (code) return code;
    rates[0] = (unsigned)gpu;
    rates[1] = (unsigned)plain_number(d, "memory_utilization");
    return OK;
}
#define UNSIGNED(function, what) \
    int function(Device d, unsigned *value) { \
        Number wide; \
        int code = number(d, __func__, what, &wide); \
        if (!code) *value = (unsigned)wide; \
        return code; \
    }
UNSIGNED(nvmlDeviceGetPowerUsage, "power")
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
UNSIGNED(nvmlDeviceGetMaxMigDeviceCount, "mig_devices")
UNSIGNED(nvmlDeviceGetGpuInstanceId, "gpu_instance")
UNSIGNED(nvmlDeviceGetComputeInstanceId, "compute_instance")
int nvmlDeviceGetTotalEnergyConsumption(Device d, Number *value) { return number(d, __func__, "energy", value); }
int nvmlDeviceGetClockInfo(Device d, unsigned type, unsigned *megahertz) {
    Number value;
    int code = number(d, __func__, type == 2 ? "memory_clock" : "sm_clock", &value);
    if (!code) *megahertz = (unsigned)value;
    return code;
}

typedef struct { unsigned id, scope; long long when, latency; unsigned type; int code; union { unsigned u; Number n; } value; } Field;
int nvmlDeviceGetFieldValues(Device d, int count, Field *fields) {
    int code = begin(d->name, __func__);
    for (int i = 0; i < count && !code; i++) {
        char key[192];
        Number value;
        snprintf(key, sizeof key, "%s.field.%u", d->name, fields[i].id);
        fields[i].code = number_of(key, &value) ? OK : NOT_SUPPORTED;
        fields[i].type = 1; /* unsigned int */
        if (!fields[i].code) fields[i].value.u = (unsigned)value;
    }
    return code;
}

int nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *pending) {
    Number value;
    int code = number(d, __func__, "mig", &value);
    if (!code) *now = *pending = (unsigned)value;
    return code;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device d, unsigned index, Device *device) {
    int code = begin(d->name, __func__);
    char key[192], value[8];
    if (code) return code;
    if (index >= MIG_DEVICES) return INVALID_ARGUMENT;
    *device = (Device)&mig_devices[atoi(d->name)][index];
    snprintf(key, sizeof key, "%s.gpu_instance", (*device)->name);
    return text_of(key, value, sizeof value) ? OK : NOT_FOUND;
}
