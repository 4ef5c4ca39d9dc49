/** Objects that are large compared with the TLAB are sampled too often (JDK-8356372). */
class OutsideTlabOversampled {
    static final int COUNT = 400_000;

    public static void main(String[] arguments) {
        int length = Integer.parseInt(arguments[0]);
        Sampler.enable();
        for (int i = 0; i < COUNT; i++) Sampler.sink = new byte[length];
        Sampler.disable();
        double expected = COUNT * (16.0 + length) / Sampler.INTERVAL;
        long samples = Sampler.samples();
        Sampler.verdict(samples > 1.2 * expected, "of %d byte[%d]: expected some %.0f samples, got %d",
            COUNT, length, expected, samples);
    }
}
