import java.util.HashMap;
import java.util.Map;

/** Starting a thread sets the generator of all threads to an address. */
class BirthReseedsGenerator {
    static final int GAPS = 1000;

    public static void main(String[] arguments) throws InterruptedException {
        int[] gaps = new int[GAPS];
        Sampler.enable();
        Sampler.untilSampled();
        for (int i = 0; i < GAPS; i++) {
            gaps[i] = Sampler.untilSampled();
            Thread thread = new Thread();
            thread.start();
            thread.join();
        }
        Sampler.disable();
        Map<Integer, Integer> times = new HashMap<>();
        double bytes = 0;
        int most = 0;
        for (int gap : gaps) {
            bytes += 16.0 * gap;
            most = Math.max(most, times.merge(gap, 1, Integer::sum));
        }
        Sampler.verdict(times.size() < GAPS * 3 / 4, "mean of %d gaps: expected some 512 KiB, got %.0f; "
            + "%d different ones, the most frequent %d times", GAPS, bytes / GAPS / 1024, times.size(), most);
    }
}
