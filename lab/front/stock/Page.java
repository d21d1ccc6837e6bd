package front;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** What page.php is: some milliseconds of processor time, and a wait as for a database. */
public final class Page extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        byte[] x = {'x'};
        try {
            MessageDigest md5 = MessageDigest.getInstance("MD5");
            for (int i = Integer.parseInt(request.getParameter("rounds")); i > 0; i--) {
                x = HexFormat.of().formatHex(md5.digest(x)).getBytes(StandardCharsets.US_ASCII);
            }
            Thread.sleep(Integer.parseInt(request.getParameter("wait")) / 1000);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        response.getOutputStream().write(x);
    }
}
