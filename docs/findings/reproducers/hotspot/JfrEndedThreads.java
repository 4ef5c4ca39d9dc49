import jdk.jfr.Configuration;
import jdk.jfr.Recording;

/** What a thread has allocated since its last sample is lost when it ends. */
class JfrEndedThreads {
    static final int THREADS = 2000;

    public static void main(String[] arguments) throws Exception {
        Recording recording = new Recording(Configuration.getConfiguration("default"));
        recording.start();
        for (int i = 0; i < THREADS; i++) {
            Thread thread = new Thread(() -> Jfr.allocate(1), "short");
            thread.start();
            thread.join();
        }
        long sum = Jfr.weights(recording, event -> Jfr.isOf(event, "short"));
        recording = new Recording(Configuration.getConfiguration("default"));
        recording.start();
        Thread thread = new Thread(() -> Jfr.allocate(THREADS), "long");
        thread.start();
        thread.join();
        long sumOfOne = Jfr.weights(recording, event -> Jfr.isOf(event, "long"));
        Jfr.verdict(sum < sumOfOne / 2, "2000 MiB: one thread reports %d, 2000 threads report %d",
            sumOfOne / Jfr.MIB, sum / Jfr.MIB);
    }
}
