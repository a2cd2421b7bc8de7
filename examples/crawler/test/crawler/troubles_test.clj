(ns crawler.troubles-test
  "A crawl of the troubles of the demo site: two of them never end, and are waited for."
  {:slow true}
  (:require
   [clojure.test :refer [deftest is]]
   [crawler.crawl :as crawl]
   [crawler.server :as server]
   [magnetar.async :as a]))

(deftest every-trouble-is-counted-under-its-name
  (let [server  (server/start {})
        summary (:summary (crawl/start (:url server) {:timeout 4000}))
        [{:keys [failures lost seen ok]} in-time] (a/alts!! [summary (a/timeout 20000)])]
    (server/stop server)
    (is (= summary in-time))
    (is (= {:http-500 1, :http-404 4, :no-answer 1, :body-timeout 1, :too-large 1, :redirect-loop 1
            :not-html 1, :empty 1, :bad-url 1}
           failures))
    (is (= [0 seen] [lost (apply + ok (vals failures))]))))
