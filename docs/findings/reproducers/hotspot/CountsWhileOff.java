/** Bytes allocated while sampling is off are charged when it is on again. */
class CountsWhileOff {
    static final int TIMES = 100, LARGE = 4 << 20;

    public static void main(String[] arguments) {
        for (int i = 0; i < TIMES; i++) {
            Sampler.sink = new byte[LARGE];
            Sampler.enable();
            Sampler.sink = new byte[0];
            Sampler.disable();
        }
        long samples = Sampler.samples();
        Sampler.verdict(samples > 10, "of %d objects of 16 bytes: expected %.3f samples, got %d",
            TIMES, 16.0 * TIMES / Sampler.INTERVAL, samples);
    }
}
