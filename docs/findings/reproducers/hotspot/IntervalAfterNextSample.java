/** A new interval applies after the next sample. */
class IntervalAfterNextSample {
    static final int TIMES = 20;

    public static void main(String[] arguments) {
        long missed = 0;
        Sampler.enable();
        for (int i = 0; i < TIMES; i++) {
            Sampler.interval(Sampler.INTERVAL);
            Sampler.untilSampled();
            Sampler.interval(0);
            missed += Sampler.untilSampled() - 1;
        }
        Sampler.disable();
        Sampler.verdict(missed > 0, "%d times interval 0: expected to miss 0 allocations, missed %d", TIMES, missed);
    }
}
