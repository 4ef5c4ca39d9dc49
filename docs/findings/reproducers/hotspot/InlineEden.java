/** Without TLABs, compiled and interpreted code allocates in eden without asking the sampler. */
class InlineEden {
    static final int OBJECTS = 1000;

    public static void main(String[] arguments) {
        Sampler.interval(0);
        Sampler.enable();
        Sampler.untilSampled();  // From here on each allocation is a sample.
        long before = Sampler.samples();
        for (int i = 0; i < OBJECTS; i++) Sampler.sink = new Object();
        long samples = Sampler.samples() - before;
        Sampler.verdict(samples < OBJECTS, "interval 0: expected %d samples, got %d", OBJECTS, samples);
    }
}
