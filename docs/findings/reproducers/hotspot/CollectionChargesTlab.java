/** A collection charges the sampler with the TLAB's unused bytes. */
class CollectionChargesTlab {
    public static void main(String[] arguments) {
        int times = Integer.parseInt(arguments[0]);
        Sampler.enable();
        for (int i = 0; i < times; i++) {
            Sampler.sink = new byte[0];
            System.gc();
        }
        Sampler.disable();
        long samples = Sampler.samples();
        Sampler.verdict(samples > 10, "of %d objects of 16 bytes, a collection after each: "
            + "expected %.3f samples, got %d", times, 16.0 * times / Sampler.INTERVAL, samples);
    }
}
