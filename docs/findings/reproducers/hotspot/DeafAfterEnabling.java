/** After it is enabled again, the sampler takes no sample until the TLAB is full. */
class DeafAfterEnabling {
    static final int TIMES = 60;

    static void allocate(int count) {
        for (int i = 0; i < count; i++) Sampler.sink = new Object();
    }

    public static void main(String[] arguments) {
        Sampler.interval(0);
        Sampler.enable();
        Sampler.untilSampled();  // From here on each allocation is a sample.
        long before = Sampler.samples();
        for (int i = 0; i < TIMES; i++) {
            Sampler.enable();
            allocate(1000);
            Sampler.disable();
            allocate(100);
        }
        long samples = Sampler.samples() - before;
        Sampler.verdict(samples < 1000 * TIMES, "interval 0: expected %d samples, got %d", 1000 * TIMES, samples);
    }
}
