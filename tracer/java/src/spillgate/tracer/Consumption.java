package spillgate.tracer;

/** What a task uses of processors and heap, and what it loses to others that use them, from totals. One thread at a time uses it. */
public final class Consumption {
    private final Task task;
    private final Resource processor;
    private final Resource heap;
    private long cpu; // as told
    private long memory;

    public Consumption(Task task, Resource processor, Resource heap) {
        this.task = task;
        this.processor = processor;
        this.heap = heap;
    }

    /**
     * Records what came since the last call, and how long that delayed the task: its threads lose the share of the time for which
     * the collector stopped all to the heap, and the rest of the time without a processor to that.
     *
     * @param cpu nanoseconds of processor time, since the task began
     * @param memory bytes of the heap, since the task began
     * @param ran for how long threads ran the task since the last call, in nanoseconds, added up
     * @param threads how many run it
     * @param collecting the share of the time since the last call for which a collector stopped all, 0 to 1
     */
    public void record(long cpu, long memory, long ran, int threads, double collecting) {
        long lost = (long) (collecting * ran);
        int n = Math.max(threads, 1);
        consume(processor, cpu - this.cpu, (ran - lost - Math.max(cpu - this.cpu, 0)) / n);
        consume(heap, memory - this.memory, lost / n);
        this.cpu = Math.max(this.cpu, cpu);
        this.memory = Math.max(this.memory, memory);
    }

    private void consume(Resource resource, long units, long lost) {
        if (units > 0) {
            task.acquire(resource, units);
            task.release(resource, units);
        }
        if (lost > 0) {
            task.waited(resource, lost);
        }
    }
}
